package termtest

import (
	"encoding/xml"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPicturesShowWhatATerminalShows(t *testing.T) {
	lines := []Line{
		{Runs: []Run{{"", "a <b> & "}, {"fg=1 bold", "日本"}}},
		{},
		{Runs: []Run{{"fg=#112233", "0123456789abc"}}},
	}
	svg := SVG(`a "session"`, 12, lines)
	require.Contains(t, svg, `>a &lt;b&gt; &amp; </text>`)
	require.Contains(t, svg, ` class="c1 bold">日本</text>`)
	require.Contains(t, svg, ` style="fill: #112233">0123456789ab</text>`)
	require.Contains(t, svg, `>c</text>`, "a row of its own")
	dec := xml.NewDecoder(strings.NewReader(svg))
	for {
		_, err := dec.Token()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
	}
}
