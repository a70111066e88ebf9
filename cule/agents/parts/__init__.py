"""Parts that the algorithms share: functions and small classes, without base classes."""
