# `sudo make demo`: from a fresh machine to a running daemon, with the main job done once.
.PHONY: demo demo-stop
demo: ## install, build, start a daemon on loopback and do the main job (root)
	@tools/demo start
demo-stop: ## stop the demo's daemon and its sandboxes (root)
	@tools/demo stop
