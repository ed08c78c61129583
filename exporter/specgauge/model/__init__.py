"""Frozen values that cross folders, and every name specgauge emits; imports nothing of ours."""
