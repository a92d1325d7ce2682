"""What the layers know: measures, samples and probes. Arrays in, tables out; nothing prints."""
