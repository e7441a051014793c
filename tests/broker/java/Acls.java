import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.tools.AclCommand;

/**
 * Kafka's own tool for ACLs, kept warm: {@code Acls SERVER}. Each line of standard input has the arguments of one call of
 * kafka-acls, separated by spaces; each is answered by a line {@code ok}, or by one that says what was wrong.
 */
final class Acls {
    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        Exit.setExitProcedure((status, message) -> {
            throw new IllegalStateException("it would have ended with " + status + ": " + message);
        });
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            List<String> call = new ArrayList<>(List.of("--bootstrap-server", arguments[0]));
            call.addAll(List.of(line.strip().split(" +")));
            try {
                AclCommand.main(call.toArray(new String[0]));
                answers.println("ok");
            } catch (RuntimeException failure) {
                answers.println(String.valueOf(failure.getMessage()).replace('\n', ' '));
            }
            answers.flush();
        }
    }
}
