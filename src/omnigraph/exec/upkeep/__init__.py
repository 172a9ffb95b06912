"""Derived state and health: indexes built, graphs checked."""
