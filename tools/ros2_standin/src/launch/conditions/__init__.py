"""Conditions of actions."""

from ..unknown_name import refuse_unknown_names
from .condition import Condition, InvalidConditionExpressionError
from .if_condition import IfCondition
from .unless_condition import UnlessCondition

__getattr__ = refuse_unknown_names(__name__)

__all__ = ["Condition", "IfCondition", "InvalidConditionExpressionError", "UnlessCondition"]
