package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestAnEmbedderGrowsNoLarger has a bound somewhat above what is measured, so that it is
// a package that does not belong there that exceeds it, and not a feature. The goal
// is [reach].
func TestAnEmbedderGrowsNoLarger(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and links two programs")
	}
	r, err := compare(t.Context(), t.TempDir())
	require.NoError(t, err)
	require.Less(t, r.ratio(), 0.80, "%d bytes against %d; go run ./bench/size says of what", r.embedder, r.alone)
	names := map[string]weight{}
	for _, p := range r.packages {
		names[p.name] = p
	}
	require.Positive(t, names["net/http"].alone)
	require.NotContains(t, names, "github.com/openai/openai-go/v3", "it links no endpoint of the SDK")
	require.Greater(t, names[module+"/internal/guest/binary"].embedder, int64(1_000_000), "the embedded guests are data of their package")
	require.Less(t, names["github.com/pelletier/go-toml/v2"].embedder, int64(10_000), "it reads no configuration from files")
	require.Less(t, names[module+"/internal/checkpoint/objstore"].embedder, int64(10_000), "it keeps no checkpoints")
}

func TestPackageOf(t *testing.T) {
	for symbol, want := range map[string]string{
		"main.main":             "main",
		"net/http.(*Client).Do": "net/http",
		"github.com/x/pygent.(*Agent).Close.func1":                             "github.com/x/pygent",
		"slices.insertionSortCmpFunc[go.shape.struct { gopkg.in/a.B string }]": "slices",
		"go.yaml.in/yaml/v3.yaml_parser_fetch_more_tokens":                     "go.yaml.in/yaml/v3",
		"vendor/golang.org/x/net/idna.idnaValues":                              "vendor/golang.org/x/net/idna",
		"example.com/a/b.T.example.com/c/d.M":                                  "example.com/a/b",
		"type:net/http.Client":                                                 "",
		"go:string.*":                                                          "",
		"_rt0_amd64_linux":                                                     "",
	} {
		require.Equal(t, want, packageOf(symbol), symbol)
	}
}
