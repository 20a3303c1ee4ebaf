"""The bridge between a broker and an MQTT broker that its user runs; imports nothing by itself."""
