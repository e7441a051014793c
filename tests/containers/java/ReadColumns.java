import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads the columns of a release, knowing only docs/wire-format.md: {@code ReadColumns SERVER TOPIC}. Prints the period, the
 * rows and the digest of each column that is committed.
 */
final class ReadColumns {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings =
                Map.of("bootstrap.servers", arguments[0], "isolation.level", "read_committed", "enable.auto.commit", false);
        var partition = List.of(new TopicPartition(arguments[1], 0));
        var bytes = new ByteArrayDeserializer();
        var digest = MessageDigest.getInstance("SHA-256");
        try (var consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
            consumer.assign(partition);
            consumer.seekToBeginning(partition);
            long end = consumer.endOffsets(partition).get(partition.get(0));
            while (consumer.position(partition.get(0)) < end) {
                for (var record : consumer.poll(Duration.ofMillis(500))) {
                    read((Map<?, ?>) decode(ByteBuffer.wrap(record.value())), digest);
                }
            }
        }
    }

    private static void read(Map<?, ?> chunk, MessageDigest digest) {
        if (!chunk.get("type").equals("column")) {
            return;
        }
        digest.update((byte[]) chunk.get("data"));
        long total = (Long) chunk.get("total");
        if ((Long) chunk.get("first") + (Long) chunk.get("rows") == total) {
            System.out.println(chunk.get("period") + " " + total + " " + HexFormat.of().formatHex(digest.digest()));
        }
    }

    /** One value of MessagePack; integers as Long, reals as Double, bin as byte[]. */
    private static Object decode(ByteBuffer in) {
        int code = in.get() & 0xff;
        if (code < 0x80) return (long) code;
        if (code < 0x90) return map(in, code & 0x0f);
        if (code < 0xa0) return list(in, code & 0x0f);
        if (code < 0xc0) return text(in, code & 0x1f);
        if (code >= 0xe0) return (long) (byte) code;
        return switch (code) {
            case 0xc0 -> null;
            case 0xc2 -> false;
            case 0xc3 -> true;
            case 0xc4 -> bytes(in, in.get() & 0xff);
            case 0xc5 -> bytes(in, in.getShort() & 0xffff);
            case 0xc6 -> bytes(in, in.getInt());
            case 0xca -> (double) in.getFloat();
            case 0xcb -> in.getDouble();
            case 0xcc -> in.get() & 0xffL;
            case 0xcd -> in.getShort() & 0xffffL;
            case 0xce -> in.getInt() & 0xffffffffL;
            case 0xcf, 0xd3 -> in.getLong();
            case 0xd0 -> (long) in.get();
            case 0xd1 -> (long) in.getShort();
            case 0xd2 -> (long) in.getInt();
            case 0xd9 -> text(in, in.get() & 0xff);
            case 0xda -> text(in, in.getShort() & 0xffff);
            case 0xdb -> text(in, in.getInt());
            case 0xdc -> list(in, in.getShort() & 0xffff);
            case 0xdd -> list(in, in.getInt());
            case 0xde -> map(in, in.getShort() & 0xffff);
            case 0xdf -> map(in, in.getInt());
            default -> throw new IllegalArgumentException("not MessagePack: " + code);
        };
    }

    private static byte[] bytes(ByteBuffer in, int length) {
        byte[] found = new byte[length];
        in.get(found);
        return found;
    }

    private static String text(ByteBuffer in, int length) {
        return new String(bytes(in, length), StandardCharsets.UTF_8);
    }

    private static List<Object> list(ByteBuffer in, int length) {
        List<Object> found = new ArrayList<>();
        for (int each = 0; each < length; each++) found.add(decode(in));
        return found;
    }

    private static Map<Object, Object> map(ByteBuffer in, int length) {
        Map<Object, Object> found = new HashMap<>();
        for (int each = 0; each < length; each++) found.put(decode(in), decode(in));
        return found;
    }
}
