"""Letters: what people read in their mail about the end of a job."""
