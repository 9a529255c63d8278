package chat_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/openai"
	"github.com/x/pygent/pygenttest"
)

const (
	pngFile = "\x89PNG\r\n\x1a\nrest"
	pdfFile = "%PDF-1.7\nrest"
)

func TestFilesBecomeParts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		file, content string
		want          chat.Part
	}{
		"image":         {"a.txt", pngFile, chat.Part{ImageURL: "data:image/png;base64,iVBORw0KGgpyZXN0"}},
		"jpeg":          {"a", "\xff\xd8\xff", chat.Part{ImageURL: "data:image/jpeg;base64,/9j/"}},
		"gif":           {"a", "GIF89a", chat.Part{ImageURL: "data:image/gif;base64,R0lGODlh"}},
		"webp":          {"a", "RIFF\x00\x00\x00\x00WEBPVP8 ", chat.Part{ImageURL: "data:image/webp;base64,UklGRgAAAABXRUJQVlA4IA=="}},
		"PDF":           {"dir/report.pdf", pdfFile, chat.Part{FileName: "report.pdf", FileURL: "data:application/pdf;base64,JVBERi0xLjcKcmVzdA=="}},
		"WAV":           {"a", "RIFF\x00\x00\x00\x00WAVEfmt ", chat.Part{AudioURL: "data:audio/wav;base64,UklGRgAAAABXQVZFZm10IA=="}},
		"MP3":           {"a", "ID3\x04", chat.Part{AudioURL: "data:audio/mpeg;base64,SUQzBA=="}},
		"MP3, no tag":   {"a", "\xff\xfb\x90\x00", chat.Part{AudioURL: "data:audio/mpeg;base64,//uQAA=="}},
		"text":          {"dir/main.go", "package main\n", chat.Part{Text: "The file dir/main.go:\n```\npackage main\n```"}},
		"empty":         {"empty", "", chat.Part{Text: "The file empty:\n```\n\n```"}},
		"fences inside": {"a.md", "```go\n````\n", chat.Part{Text: "The file a.md:\n`````\n```go\n````\n`````"}},
		"odd name":      {"a\nb", "x", chat.Part{Text: "The file \"a\\nb\":\n```\nx\n```"}},
		"HTML":          {"a.html", "<html>", chat.Part{Text: "The file a.html:\n```\n<html>\n```"}},
		"SVG is text":   {"a.svg", "<svg/>", chat.Part{Text: "The file a.svg:\n```\n<svg/>\n```"}},
	} {
		t.Run(name, func(t *testing.T) {
			part, err := chat.FilePart(test.file, []byte(test.content))
			require.NoError(t, err)
			require.Equal(t, test.want, part)
		})
	}
	for name, test := range map[string]struct{ content, want string }{
		"binary":         {"\x7fELF\x00\x01", "f: neither text in UTF-8 nor an image, a PDF file or a recording (application/octet-stream)"},
		"not UTF-8":      {"caf\xe9", "f: neither text in UTF-8 nor an image, a PDF file or a recording (text/plain; charset=utf-8)"},
		"large text":     {strings.Repeat("x", 256<<10+1), "f: a message takes a text of at most 262144 bytes"},
		"large image":    {pngFile + strings.Repeat("x", 5<<20), "f: a message takes an image of at most 5242880 bytes"},
		"large PDF":      {pdfFile + strings.Repeat("x", 16<<20), "f: a message takes a PDF file of at most 16777216 bytes"},
		"large WAV":      {"RIFF\x00\x00\x00\x00WAVEfmt " + strings.Repeat("x", 16<<20), "f: a message takes a recording of at most 16777216 bytes"},
		"archive":        {"PK\x03\x04\x00", "f: neither text in UTF-8 nor an image, a PDF file or a recording (application/zip)"},
		"bitmap, no PNG": {"BM\x00\x00", "f: neither text in UTF-8 nor an image, a PDF file or a recording (image/bmp)"},
	} {
		t.Run(name, func(t *testing.T) {
			part, err := chat.FilePart("f", []byte(test.content))
			require.EqualError(t, err, test.want)
			require.Empty(t, part)
		})
	}
}

func TestAttachReadsRegularFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text, image := filepath.Join(dir, "a.txt"), filepath.Join(dir, "b")
	require.NoError(t, os.WriteFile(text, []byte("hello\n"), 0o600))
	require.NoError(t, os.WriteFile(image, []byte(pngFile), 0o600))
	parts, err := chat.Attach(text, image)
	require.NoError(t, err)
	require.Len(t, parts, 2)
	require.Contains(t, parts[0].Text, "hello")
	require.NotEmpty(t, parts[1].ImageURL)

	_, err = chat.Attach(text, dir)
	require.EqualError(t, err, "attach "+dir+": not a regular file")
	_, err = chat.Attach(filepath.Join(dir, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NotContains(t, strings.TrimPrefix(err.Error(), "attach "+dir), dir, "the path is said once")

	sparse := filepath.Join(dir, "sparse")
	require.NoError(t, os.WriteFile(sparse, nil, 0o600))
	require.NoError(t, os.Truncate(sparse, 1<<40))
	_, err = chat.Attach(sparse)
	require.ErrorContains(t, err, "a message takes a text of at most")
}

func TestFilesAreSentAsTheServerTakesThem(t *testing.T) {
	t.Parallel()
	pdf, err := chat.FilePart("b.pdf", []byte(pdfFile))
	require.NoError(t, err)
	for api, want := range map[openai.Protocol]string{
		openai.Chat:      `{"type":"file","file":{"file_data":"` + pdf.FileURL + `","filename":"b.pdf"}}`,
		openai.Responses: `{"type":"input_file","filename":"b.pdf","file_data":"` + pdf.FileURL + `"}`,
	} {
		s := pygenttest.NewServer(t, pygenttest.Text("ok"))
		m := testkit.NewModel(t, openai.BaseURL(s.URL()), openai.API(api))
		_, err := m.Chat(t.Context(), &chat.Request{Messages: []chat.Message{chat.UserMessage("Read this.", pdf)}})
		require.NoError(t, err)
		require.Contains(t, string(s.Requests()[0].Body), want)
	}
}

func TestAPartSurvivesJSON(t *testing.T) {
	t.Parallel()
	pdf, err := chat.FilePart("b.pdf", []byte(pdfFile))
	require.NoError(t, err)
	data, err := json.Marshal(chat.UserMessage("", pdf))
	require.NoError(t, err)
	var back chat.Message
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, pdf.FileURL, back.Parts[0].FileURL)
	back.Parts[0].FileName = "c.pdf"
	data, err = json.Marshal(back)
	require.NoError(t, err)
	require.Contains(t, string(data), `"filename":"c.pdf"`)
}

// It took 22 seconds when the fence grew by one at a time.
func TestAFileOfBackticksIsQuoted(t *testing.T) {
	t.Parallel()
	fences := strings.Repeat("`", 256<<10)
	part, err := chat.FilePart("a.md", []byte(fences))
	require.NoError(t, err)
	require.Equal(t, "The file a.md:\n`"+fences+"\n"+fences+"\n`"+fences, part.Text)
}

func TestRecordingsInOtherWords(t *testing.T) {
	t.Parallel()
	for url, format := range map[string]string{
		"data:audio/wave;base64,AAAA": "wav", "data:audio/x-wav;base64,AAAA": "wav", "data:audio/mpeg;base64,AAAA": "mp3", "data:audio/ogg;base64,AAAA": "ogg",
	} {
		data, err := json.Marshal(chat.Part{AudioURL: url})
		require.NoError(t, err)
		require.JSONEq(t, `{"type":"input_audio","input_audio":{"data":"AAAA","format":"`+format+`"}}`, string(data))
	}
}

func TestRecordingsSurviveARoundTrip(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"RIFF\x00\x00\x00\x00WAVEfmt ", "ID3\x04"} {
		part, err := chat.FilePart("a", []byte(file))
		require.NoError(t, err)
		data, err := json.Marshal(chat.UserMessage("", part))
		require.NoError(t, err)
		require.Contains(t, string(data), `"type":"input_audio"`)
		require.NotContains(t, string(data), "data:", "the API wants the data alone")
		var back chat.Message
		require.NoError(t, json.Unmarshal(data, &back))
		require.Equal(t, part.AudioURL, back.Parts[0].AudioURL)
		again, err := json.Marshal(back)
		require.NoError(t, err)
		require.JSONEq(t, string(data), string(again))
	}
}

func TestRecordingsOfAnotherFormAreKept(t *testing.T) {
	t.Parallel()
	for _, part := range []string{`{"type":"input_audio","input_audio":"id_1"}`, `{"type":"input_audio","input_audio":null}`, `{"type":"input_audio","input_audio":{"data":7}}`} {
		var p chat.Part
		require.NoError(t, json.Unmarshal([]byte(part), &p), part)
		require.Empty(t, p.AudioURL)
		data, err := json.Marshal(p)
		require.NoError(t, err)
		require.JSONEq(t, part, string(data))
	}
}
