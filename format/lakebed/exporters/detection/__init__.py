"""Exporters of annotated images: COCO and YOLO."""
