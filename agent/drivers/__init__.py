"""Drivers: what decides the next step. All see the same board."""
