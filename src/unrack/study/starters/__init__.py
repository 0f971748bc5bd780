"""Files to begin with: templates of policies and studies, and the examples that are shipped with the package."""
