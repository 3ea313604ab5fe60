"""What a test can do to a broker without a client, such as to fence a producer or to kill a broker. Each deed is declared once:
MockKafka, the HTTP control and the faults use this declaration (`wirebroker.deeds.declaring`)."""
