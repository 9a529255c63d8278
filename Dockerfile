# The image of the command, for the release. It needs an engine's socket, and the workspace
# at the path that it has for the engine:
#
#	docker run -it --rm -v /var/run/docker.sock:/var/run/docker.sock \
#		-v "$PWD:$PWD" -w "$PWD" -e OPENAI_API_KEY ghcr.io/x/pygent
#
# The base has bash, certificates and git.
ARG BASE=buildpack-deps:stable-scm
FROM ${BASE}
ARG TARGETPLATFORM
COPY LICENSE THIRD_PARTY_NOTICES.txt /usr/share/doc/pygent/
COPY $TARGETPLATFORM/pygent /usr/local/bin/
ENTRYPOINT ["pygent"]
