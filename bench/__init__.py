"""Measurements, side by side with what they are measured against. They print and write JSON, and assert nothing."""
