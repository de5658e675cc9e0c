# simulate
