"""Where evidence lives: write-once stores, their names and what is published into them."""
