package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
)

func TestRefusedHostsAreNamedOnce(t *testing.T) {
	var l hostLog
	require.Empty(t, l.String())
	for range 2 {
		l.note(pygent.HostUse{Host: "allowed.example", Port: 443, Allowed: true})
		l.note(pygent.HostUse{Host: "pypi.org", Port: 443})
		l.note(pygent.HostUse{Host: "pypi.org", Port: 80})
		l.note(pygent.HostUse{Host: "a.example", Port: 8080})
	}
	require.Equal(t, "commands were refused pypi.org, a.example:8080; --allow-host pypi.org,a.example:8080 allows that", l.String())
	for i := range 1000 {
		l.note(pygent.HostUse{Host: fmt.Sprintf("%d.example", i), Port: 443})
	}
	require.Len(t, l.names, maxHosts)
	require.Contains(t, l.String(), " and others; ")
}
