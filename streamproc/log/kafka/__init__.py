"""The `Log` port on Kafka (brokers of version 3.1 or newer), with aiokafka."""

from streamproc.log.kafka.log import KafkaLog
from streamproc.log.kafka.settings import KafkaSettings

__all__ = ["KafkaLog", "KafkaSettings"]
