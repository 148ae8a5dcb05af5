# Installed files. The unit file gets the paths of PREFIX.
PREFIX ?= /usr/local
DESTDIR ?=
UNITDIR ?= /etc/systemd/system
# Where caissond looks for its configuration file; not below PREFIX.
CONFDIR = /etc/caisson

.PHONY: install uninstall
install: all ## copy programs, data, unit file and completions below PREFIX (root)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/libexec/caisson \
		$(DESTDIR)$(PREFIX)/share/caisson $(DESTDIR)$(UNITDIR) $(DESTDIR)$(CONFDIR) \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions \
		$(DESTDIR)$(PREFIX)/share/zsh/site-functions
	install -m 0755 $(BUILD)/caissond $(BUILD)/caisson $(DESTDIR)$(PREFIX)/bin/
	install -m 0755 $(BUILD)/caisson-init $(DESTDIR)$(PREFIX)/libexec/caisson/
	install -m 0644 $(wildcard share/*.nft) $(DESTDIR)$(PREFIX)/share/caisson/
	if [ -f build/image/default.tar.zst ]; then install -m 0644 build/image/default.tar.zst \
		$(DESTDIR)$(PREFIX)/share/caisson/; fi
	sed 's|@PREFIX@|$(PREFIX)|g' share/caissond.service > $(DESTDIR)$(UNITDIR)/caissond.service
	if [ ! -e $(DESTDIR)$(CONFDIR)/caissond.conf ]; then sed 's|@PREFIX@|$(PREFIX)|g' \
		share/caissond.conf > $(DESTDIR)$(CONFDIR)/caissond.conf; fi
	$(BUILD)/caisson completion bash > \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions/caisson
	$(BUILD)/caisson completion zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_caisson

uninstall: ## remove what install copied; data and /etc/caisson stay
	rm -rf $(DESTDIR)$(PREFIX)/libexec/caisson $(DESTDIR)$(PREFIX)/share/caisson
	rm -f $(DESTDIR)$(PREFIX)/bin/caissond $(DESTDIR)$(PREFIX)/bin/caisson \
		$(DESTDIR)$(UNITDIR)/caissond.service \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions/caisson \
		$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_caisson
