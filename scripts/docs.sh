#!/usr/bin/env bash
# Builds the site of the documentation, docs, into .build/site. A link to a page that does
# not exist is an error, and so is a file that the site loads from another host. The
# generator is pinned in docs/package.json.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

npm_install docs docs
ln -sfn ../.build/docs/node_modules docs/node_modules
docs/node_modules/.bin/vitepress build docs >&2
[ -e .build/site/index.html ] || die "the generator wrote no site"
# What a page loads by itself: scripts, styles, images, fonts.
if grep -rEho '<(script|img|iframe)[^>]*src="(https?:)?//[^"]*|<link[^>]*rel="(stylesheet|preload|modulepreload|icon)"[^>]*href="(https?:)?//[^"]*|url\((https?:)?//[^)]*' .build/site; then
	die 'the site loads these from other hosts'
fi
say "the site is in .build/site: open it with python3 -m http.server -d .build/site"
