package approval

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWords(t *testing.T) {
	text, prompt := Words([]string{"pypi.org"}, false)
	require.Equal(t, "pypi.org", text)
	require.Equal(t, "Allow that? [y]es, for this command, for this [s]ession, [n]o, or say why not: ", prompt)

	text, prompt = Words([]string{"pypi.org", "www.xn--pypi-4ve.org"}, true)
	require.Equal(t, "pypi.org, www.xn--pypi-4ve.org (punycode: another script)", text)
	require.Equal(t, "Allow them all? [y]es, for this command, for this [s]ession, [a]lways, [n]o, or say why not: ", prompt)
}
