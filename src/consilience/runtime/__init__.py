"""The driver of a run: runs any method's rounds, records and saves them, and reports them as events."""
