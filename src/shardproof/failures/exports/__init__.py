"""The open map in forms that others read: JSON, JSONL, bundles, Croissant, Hugging Face, Inspect, in-toto."""
