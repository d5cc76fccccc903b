"""Actions of people: approvals, closures, objections, settings, webhooks."""
