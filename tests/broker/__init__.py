"""A real Kafka broker for the tests, on this machine only."""

from tests.broker.broker import KafkaBroker
from tests.broker.jars import kafka_jars, missing_programs

__all__ = ["KafkaBroker", "kafka_jars", "missing_programs"]
