"""The ``ingest_*`` functions of Deep Lake 3.x."""
