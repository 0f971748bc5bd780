"""Where runs are run: in this process, in processes of this machine, on a Dask or a Ray cluster."""
