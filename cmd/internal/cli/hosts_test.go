package cli

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
)

func TestRefusedHostsAreNamedOnce(t *testing.T) {
	t.Parallel()
	var l hostLog
	require.Empty(t, l.String())
	for range 2 {
		l.note(pygent.HostUse{Host: "allowed.example", Port: 443, Allowed: true})
		l.note(pygent.HostUse{Host: "pypi.org", Port: 443, Allow: "pypi.org"})
		l.note(pygent.HostUse{Host: "pypi.org", Port: 80, Allow: "pypi.org"})
		l.note(pygent.HostUse{Host: "a.example", Port: 8080, Allow: "a.example:8080"})
	}
	require.Equal(t, "commands could not reach pypi.org, a.example:8080; to allow this, use --allow-host pypi.org,a.example:8080", l.String())
	for i := range 1000 {
		l.note(pygent.HostUse{Host: fmt.Sprintf("%d.example", i), Port: 443, Allow: fmt.Sprintf("%d.example", i)})
	}
	require.Len(t, l.names, maxHosts)
	require.Contains(t, l.String(), "; and others")
}

func TestNoFlagIsOfferedForAHostThatItDoesNotAllow(t *testing.T) {
	t.Parallel()
	var l hostLog
	l.note(pygent.HostUse{Host: "pypi.org", Port: 443, Reason: "the limit is reached"})
	require.Equal(t, "commands could not reach pypi.org (the limit is reached)", l.String())
	l.note(pygent.HostUse{Host: "10.0.0.5", Port: 80, Allow: "10.0.0.5:80"})
	require.Equal(t, "commands could not reach 10.0.0.5:80; to allow this, use --allow-host 10.0.0.5:80; and pypi.org (the limit is reached)", l.String())
}
