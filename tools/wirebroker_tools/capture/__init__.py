"""Captures of network traffic: writes sessions as pcapng, and reads pcapng and pcap files, without other tools."""
