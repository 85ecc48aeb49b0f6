//! Trajectories out, one file per format.
