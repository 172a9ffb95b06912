"""An accepted catalog and a wanted schema -> a plan of steps."""

from omnigraph.catalog.evolve.evolution import Evolution, plan_schema
from omnigraph.catalog.evolve.steps import SchemaPlan, Step, describe

__all__ = ["Evolution", "SchemaPlan", "Step", "describe", "plan_schema"]
