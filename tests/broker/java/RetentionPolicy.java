import java.util.Map;
import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.server.policy.CreateTopicPolicy;

/** A policy as many clusters have one: no topic may keep its records without a limit. */
public final class RetentionPolicy implements CreateTopicPolicy {
    @Override
    public void validate(RequestMetadata request) {
        if ("-1".equals(request.configs().get("retention.ms"))) {
            throw new PolicyViolationException("retention.ms must be at most 30 days.\nSee the wiki, page 7.");
        }
    }

    @Override
    public void configure(Map<String, ?> settings) {}

    @Override
    public void close() {}
}
