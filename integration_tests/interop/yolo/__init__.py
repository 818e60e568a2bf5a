"""``ingest_yolo`` and ``export_yolo`` under Deep Lake 3.9.52 and under lakebed."""
