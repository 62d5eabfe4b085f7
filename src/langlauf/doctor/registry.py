"""Every check, in the order in which they are made: it feeds the command, the documents and a test."""

from langlauf.doctor import blobs, clocks, configuration, deliveries, duties, file, schema, server, work
from langlauf.doctor.check import Check

CHECKS: tuple[Check, ...] = (
    *file.CHECKS,
    *server.CHECKS,
    *schema.CHECKS,
    *clocks.CHECKS,
    *work.CHECKS,
    *duties.CHECKS,
    *deliveries.CHECKS,
    *blobs.CHECKS,
    *configuration.CHECKS,
)
