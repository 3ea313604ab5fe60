"""Captures of network traffic: sessions written as pcapng, and files of others read, without tools of others."""
