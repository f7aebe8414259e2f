"""List the names that people give to the columns of images and of classes, in several languages.

``_column_search.py`` compares the titles of a table with them. The order counts: the first name
that a table has is taken. To add a language, add its words to the two lists of other languages.
"""

from __future__ import annotations

_IMAGES = """
path file filename file_name filepath file_path image image_path image_name img img_path img_name
imgpath imagename fname image_id imageid id_code image_index image_file image_filename img_file id
"""
_LABELS = """
label_name class_name classname category_name label_text label class category labelname labels
class_label choice cls classid class_id label_id category_id diagnosis dx breed species
finding_labels target
"""
_TAGS = """
labels tags label tag classes categories attributes class category finding_labels image_labels
label_names class_names keywords
schlagwörter schlagworte kategorien étiquettes etiquettes catégories mots_clés etiquetas categorías
palavras_chave etichette теги метки tagi etykiety etiketler 标签 標籤 タグ ラベル 태그 라벨
"""
IMAGES = tuple(_IMAGES.split())
LABELS = tuple(_LABELS.split())
"""Names of columns in English; the first that a table has counts."""

_FOREIGN_IMAGES = """
bild bilddatei bildname bildpfad bild_id datei dateiname dateipfad pfad
fichier nom_fichier nom_du_fichier chemin photo image_nom
imagen archivo fichero nombre_archivo ruta foto
imagem arquivo ficheiro nome_arquivo caminho
immagine nome_file percorso
afbeelding bestand bestandsnaam
файл имя_файла изображение картинка путь фото
plik nazwa_pliku obraz zdjęcie ścieżka
dosya dosya_adı görüntü resim görsel
图片 图像 文件 文件名 图片名 图片名称 路径 圖片 檔案 檔名
画像 画像名 ファイル ファイル名 パス
파일 파일명 이미지 경로 사진
الصورة صورة الملف ملف اسم_الملف المسار
चित्र छवि फ़ाइल फाइल
gambar berkas ảnh hình_ảnh tệp
"""
_FOREIGN_LABELS = """
klasse klassen kategorie bezeichnung etikett beschriftung
classe étiquette etiquette catégorie categorie libellé libelle
clase etiqueta categoría categoria
rótulo rotulo
etichetta
klas label_naam categorie
класс метка категория
klasa etykieta kategoria
sınıf sinif etiket kategori
类别 类 标签 分类 類別 標籤
クラス ラベル 分類 カテゴリ
클래스 라벨 레이블 분류
الفئة فئة التصنيف الصنف التسمية
वर्ग लेबल श्रेणी
kelas lớp nhãn
"""
TAGS = (*_TAGS.split(), *dict.fromkeys(_FOREIGN_LABELS.split()))
"""Names of columns with several labels, in all languages."""
FOREIGN_IMAGES = tuple(_FOREIGN_IMAGES.split())
FOREIGN_LABELS = tuple(dict.fromkeys(_FOREIGN_LABELS.split()))
"""The same in other languages; they count where no English one is there."""
