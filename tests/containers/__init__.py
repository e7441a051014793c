"""Whole studies in containers, over a Kafka container, made of the images that are deployed."""
