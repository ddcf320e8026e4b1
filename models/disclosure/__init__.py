"""Attacks on any release that claims to be anonymous, each with a control, an interval and its power."""
