"""Things that are only counted: software licences of a cluster, network uplinks of racks."""
