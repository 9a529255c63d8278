package mediabudget_test

import (
	"bytes"
	"encoding/base64"
	pixels "image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/mediabudget"
)

func TestImagesTellTheirPixels(t *testing.T) {
	picture := pixels.NewPaletted(pixels.Rect(0, 0, 321, 123), color.Palette{color.Black, color.White})
	var asPNG, asJPEG, asGIF bytes.Buffer
	require.NoError(t, png.Encode(&asPNG, picture))
	require.NoError(t, jpeg.Encode(&asJPEG, picture, nil))
	require.NoError(t, gif.Encode(&asGIF, picture, nil))
	// JPEG has its size behind what else it has.
	long := append([]byte{0xff, 0xd8, 0xff, 0xe1, 0xff, 0xff}, make([]byte, 0xffff-2)...)
	long = append(long, asJPEG.Bytes()[2:]...)
	webp := func(kind string, rest ...byte) []byte {
		return append([]byte("RIFF\x00\x00\x00\x00WEBP"+kind+"\x00\x00\x00\x00"), append(rest, make([]byte, 20)...)...)
	}
	for name, data := range map[string][]byte{
		"png": asPNG.Bytes(), "jpeg": asJPEG.Bytes(), "gif": asGIF.Bytes(), "jpeg with a profile": long,
		"webp":          webp("VP8 ", 0, 0, 0, 0x9d, 1, 0x2a, 321&0xff, 321>>8, 123, 0),
		"webp lossless": webp("VP8L", 0x2f, 320&0xff, 320>>8|122&3<<6, 122>>2, 0),
		"webp extended": webp("VP8X", 0, 0, 0, 0, 320&0xff, 320>>8, 0, 122, 0, 0),
	} {
		width, height := mediabudget.Pixels("data:image/x;base64," + base64.StdEncoding.EncodeToString(data))
		require.Equal(t, []int{321, 123}, []int{width, height}, name)
	}
	for _, none := range []string{"", "https://a/b.png", "data:", "data:image/png,", "data:image/png;base64,", "data:image/png;base64,AAAA", "data:image/png;base64,###", "data:image/webp;base64,UklGRgAAAABXRUJQ"} {
		width, height := mediabudget.Pixels(none)
		require.Equal(t, []int{0, 0}, []int{width, height}, none)
	}
}

func FuzzPixels(f *testing.F) {
	f.Add([]byte("RIFF\x00\x00\x00\x00WEBPVP8X"))
	f.Add([]byte("\x89PNG\r\n\x1a\n"))
	f.Add([]byte("\xff\xd8\xff\xe1"))
	f.Add([]byte("GIF89a"))
	f.Fuzz(func(t *testing.T, data []byte) {
		mediabudget.Pixels("data:image/x;base64," + base64.StdEncoding.EncodeToString(data))
	})
}
