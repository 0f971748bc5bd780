"""A site: partitions and features of nodes, limits of users, accounts and qualities of service."""
