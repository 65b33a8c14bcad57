"""The load generator: plays a realistic evening of device events into the input of the sessionize job."""
