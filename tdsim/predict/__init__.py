"""Predictions: time, baseline, bound, critical path and scaling of a program on a machine."""

from tdsim.predict.report import PathStep, Prediction, make_job, predict, scale, summarise
from tdsim.predict.timeline import trace

__all__ = ["PathStep", "Prediction", "make_job", "predict", "scale", "summarise", "trace"]
