"""The load generator: plays a believable evening of device events into the input folder of the sessionize job."""
