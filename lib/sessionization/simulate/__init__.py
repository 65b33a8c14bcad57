"""The load generator: plays a believable evening of device events into the input of the sessionize job."""
