import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Sends reports as any Java program would, with the partitioner it finds: {@code SendReports SERVER TOPIC}. Standard input
 * has a line per report, its value in hexadecimal and the id; the partition of each is printed.
 */
final class SendReports {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", arguments[0], "acks", "all");
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8)).lines().toList();
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new ByteArraySerializer())) {
            for (String line : lines) {
                int space = line.indexOf(' ');
                byte[] value = HexFormat.of().parseHex(line.substring(0, space));
                sent.add(producer.send(new ProducerRecord<>(arguments[1], line.substring(space + 1), value)));
            }
            for (Future<RecordMetadata> each : sent) {
                System.out.println(each.get().partition());
            }
        }
    }
}
