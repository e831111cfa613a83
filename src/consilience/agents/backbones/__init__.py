"""Backbones: frozen pretrained networks that make features of raw images and texts."""
