"""What a study is made from: its file, and the clusters, workloads and failures that it names."""
