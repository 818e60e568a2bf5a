"""Importers of annotated images: COCO, YOLO, Pascal VOC, CVAT, LabelMe and Open Images."""
