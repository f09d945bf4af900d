"""The one place that knows where each Airflow keeps what we use: 3.1 and later, by way of common.compat."""

from __future__ import annotations

from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
    AirflowNotFoundException,
    AirflowSkipException,
    Asset,
    BaseHook,
    BaseNotifier,
    BaseOperator,
    BaseOperatorLink,
    BaseSensorOperator,
    BranchMixIn,
    Connection,
    Context,
    Stats,
    TaskGroup,
    TriggerRule,
    XComArg,
    conf,
    task_group,
)

__all__ = [
    "AirflowException",
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowSkipException",
    "Asset",
    "BaseHook",
    "BaseNotifier",
    "BaseOperator",
    "BaseOperatorLink",
    "BaseSensorOperator",
    "BranchMixIn",
    "Connection",
    "Context",
    "Stats",
    "TaskGroup",
    "TriggerRule",
    "XComArg",
    "conf",
    "task_group",
]
