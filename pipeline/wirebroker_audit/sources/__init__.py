"""Lets Spark read a log, by tasks over pieces or by streams."""
